"""What runs on the far side: the spawner that makes sandboxes, and the guest that serves each from within.

Standard library and relative imports only. The spawner starts without site-packages and loads this folder
as the top-level package `guest`; the host imports only `frames`, the format both sides speak.
"""
