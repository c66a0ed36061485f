"""Which image of agentgym's cache is used for an image that a Dockerfile names."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from agentgym import SandboxUnavailable, TaskError
from agentgym.sandbox import cache_folder, rootfs

from .dockerfile import Dockerfile
from .uv import PROGRAM as UV
from .uv import uv_image, uv_in_image

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An image that a Dockerfile names.

    Attributes:
        requested: its name there.
        used: the name or path of the image that is used.
        stand_in: whether that has been made from packages of Debian or Ubuntu, and may have other versions.
    """

    requested: str
    used: str
    stand_in: bool = False


def base_images(dockerfile: Dockerfile, chosen: str = "", builder: str = "agentgym") -> list[BaseImage]:
    """Return the images that the stages are built on or copy files from.

    An image of the right name comes first, then uv of PyPI for that of its publisher, then a stand-in, then for
    python:3.12 the image that `agentgym sandbox image 3.12` makes.

    Args:
        chosen: an image for all of them, as the user names it; empty to find each by its name.
        builder: who builds. Docker's daemon finds them itself, under the names that the Dockerfile has.
    Raises: TaskError saying how to get an image that is not in the cache.
    """
    names: list[str] = []
    for stage in dockerfile.stages if builder == "docker" else dockerfile.needed():  # the daemon builds every stage
        names += [] if stage.from_stage else [stage.base]
        names += [name for name in stage.needs if name not in stage.earlier]
    if builder == "docker":
        if chosen:
            raise TaskError(f"Docker builds on what its daemon has: `docker tag {chosen} NAME`, without --option image")
        return [BaseImage(name, name) for name in dict.fromkeys(names) if name != "scratch"]
    if not chosen:
        return [_find(name) for name in dict.fromkeys(names)]
    return [BaseImage(name, uv_in_image(name) or _chosen(chosen)) for name in dict.fromkeys(names)]


def images_from(rows: object) -> dict[str, BaseImage]:
    """Return the images of a task's parameters by the name that its Dockerfile has. Raises: TypeError, KeyError."""
    if not isinstance(rows, Iterable):
        raise TypeError(f"{rows!r} is not a list")
    images = [BaseImage(str(row["requested"]), str(row["used"]), bool(row["stand_in"])) for row in rows]
    return {image.requested: image for image in images}


def unpacked_base(image: BaseImage) -> rootfs.RootFilesystem:
    """Return the unpacked image. Raises: SandboxUnavailable if it has left the cache, is invalid, or has no room."""
    name = image.used
    if name.startswith(UV):
        name = str(uv_image(rootfs.install_program(name)))
    elif name == rootfs.HOST_IMAGE:
        name = str(rootfs.make_python_image(HERE))
    return rootfs.prepare_rootfs(name, as_root=True)


def _chosen(name: str) -> str:
    try:
        return name if name == rootfs.HOST_IMAGE or "/" not in name else str(rootfs.locate(name))
    except SandboxUnavailable as error:
        raise TaskError(str(error)) from error


def _find(name: str) -> BaseImage:
    """Find the image of a FROM. It must not be a path, because the Dockerfile is not trusted."""
    if name == "scratch":
        raise TaskError(
            "its Dockerfile has FROM scratch, an image without a shell, which agent and tests need. Name another one "
            "by --option image=NAME"
        )
    names = rootfs.names()
    own = [name, name.replace(":", "-").replace("/", "-"), name.rpartition("/")[2].replace(":", "-")]
    if match := next((likely for likely in own if likely in names), None):
        return BaseImage(name, match)
    if uv := uv_in_image(name):
        return BaseImage(name, uv)
    stand_in = rootfs.stand_in_for(name)
    if stand_in is not None and stand_in.name in names:
        return BaseImage(name, stand_in.name, stand_in=True)
    version = ".".join(name.rpartition(":")[2].partition("-")[0].split(".")[:2])
    if name.rpartition("/")[2].startswith("python:") and f"python{version}" in names:
        return BaseImage(name, f"python{version}", stand_in=True)
    make = f"Make a stand-in for it by `agentgym sandbox base {name}`, put" if stand_in is not None else "Put"
    raise TaskError(
        f"its base image {name!r} is not in the cache (which has {', '.join(names) or 'none'}). {make} it there by "
        f"`docker save {name} -o {cache_folder() / 'images' / (own[1] + '.tar')}`, or use another image for all tasks "
        "by --option image=NAME, where `host` means this host's programs"
    )
