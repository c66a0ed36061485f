"""Root file systems for sandboxes: finds an image, unpacks each content once, and keeps it in the cache.

Use it as a module: `from agentgym.sandbox import rootfs`, then `rootfs.names()`.

store.py      the cache of unpacked images           archive.py   reads a hostile archive, entry by entry
sources.py    folders, tars, OCI layouts             tree.py      writes the files of an image into one folder only
python_image.py  makes an image from an interpreter installed on this host
stand_ins.py  makes images that stand in for usual base images, from packages of Debian or Ubuntu
package_indexes.py  the package indexes of this host, for sandboxes in which images are built
programs.py   installs agent programs of npm and PyPI, which sandboxes mount
"""

from agentgym.moved import moved_names
from agentgym.sandbox.rootfs.package_indexes import INDEX_FOLDER as INDEX_FOLDER
from agentgym.sandbox.rootfs.package_indexes import PackageIndexes as PackageIndexes
from agentgym.sandbox.rootfs.package_indexes import package_indexes as package_indexes
from agentgym.sandbox.rootfs.programs import InstalledProgram as InstalledProgram
from agentgym.sandbox.rootfs.programs import install_program as install_program
from agentgym.sandbox.rootfs.programs import locate_program as locate_program
from agentgym.sandbox.rootfs.python_image import OLDEST_PYTHON as OLDEST_PYTHON
from agentgym.sandbox.rootfs.python_image import find_interpreter as find_interpreter
from agentgym.sandbox.rootfs.python_image import make_python_image as make_python_image
from agentgym.sandbox.rootfs.stand_ins import StandIn as StandIn
from agentgym.sandbox.rootfs.stand_ins import is_stand_in as is_stand_in
from agentgym.sandbox.rootfs.stand_ins import make_stand_in as make_stand_in
from agentgym.sandbox.rootfs.stand_ins import stand_in_for as stand_in_for
from agentgym.sandbox.rootfs.store import HOST_IMAGE as HOST_IMAGE
from agentgym.sandbox.rootfs.store import RootFilesystem as RootFilesystem
from agentgym.sandbox.rootfs.store import add_layer as add_layer
from agentgym.sandbox.rootfs.store import locate as locate
from agentgym.sandbox.rootfs.store import names as names
from agentgym.sandbox.rootfs.store import prepare_rootfs as prepare_rootfs

__getattr__ = moved_names(__name__)
