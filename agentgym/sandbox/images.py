"""Moved to `agentgym.sandbox.rootfs`; this path works until 0.3.0."""

from agentgym.deprecation import renamed_attributes

__getattr__ = renamed_attributes(
    __name__,
    {
        "HOST": "agentgym.sandbox.rootfs.HOST_IMAGE",
        "Image": "agentgym.sandbox.rootfs.RootFilesystem",
        "cache": "agentgym.sandbox.rootfs.cache_folder",
        "locate": "agentgym.sandbox.rootfs.locate",
        "names": "agentgym.sandbox.rootfs.names",
        "prepare": "agentgym.sandbox.rootfs.prepare_rootfs",
    },
)
