"""The guest: runs in the sandbox beside Chromium, drives it, serves its pages and reads the pages' state.

It needs only the standard library of Python 3.9.
"""
