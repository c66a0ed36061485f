"""Source distributions from the package index that replace a clone: releases near the base commits of instances.

Each release has the bug of its instances, or is given it (see `FIXED`). Both patches of an instance apply to it, and
the tests fail and pass as recorded, with the exceptions in `docs/environments/swe.md`. A release is not the commit:
tasks made from it have the tag `stand_in`.
"""

from __future__ import annotations

DJANGO = dict.fromkeys((f"django__django-{number}" for number in (10914, 10924, 11001, 11039, 11049)), "Django==2.2b1")
ASTROPY = {
    "astropy__astropy-6938": "astropy==2.0.3",
    "astropy__astropy-7746": "astropy==3.0.4",
    "astropy__astropy-12907": "astropy==5.0.1",
    "astropy__astropy-14182": "astropy==5.2",
    "astropy__astropy-14365": "astropy==5.2.1",
    "astropy__astropy-14995": "astropy==5.3",
}
"""Releases with compiled parts, which need an environment (`--validate`)."""
FIXED = {"django__django-11019": "Django==3.0a1"}
"""Releases that already have the fix.

The fix and its tests are reverted, because no earlier release is as near to the commit.
"""
STANDS_IN = DJANGO | ASTROPY | FIXED
