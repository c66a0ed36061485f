"""Interpreters and packages of the dozen repositories of SWE-bench, by version of the repository.

Source: the installation specifications published by the set's authors (swebench 4.1.0, harness/constants/python.py),
reduced to facts: Python version, pinned packages, requirements files, extras. The packages that `pip install .` adds
are named in the repository itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedEnvironment:
    """The test environment of a repository's version.

    Attributes:
        python: version of the interpreter. `requirements`: the packages for pip in addition to the repository's own, as
            one text.
        files: requirements files in the repository; missing ones are ignored. `extras`: the extras of the repository's
            package.
    """

    python: str
    requirements: str = ""
    files: tuple[str, ...] = ()
    extras: str = ""


def published_environment(repo: str, version: str) -> PublishedEnvironment | None:
    """Return the environment of a version of a repository such as pallets/flask; None if none was published."""
    for versions, environment in ENVIRONMENTS.get(repo, {}).items():
        if version in versions.split():
            return environment
    return None


ENVIRONMENTS: dict[str, dict[str, PublishedEnvironment]] = {
    "astropy/astropy": {
        "3.0 3.1 3.2 4.1 4.2 4.3 5.0 5.1 5.2": PublishedEnvironment(
            "3.9",
            (
                "attrs==23.1.0 exceptiongroup==1.1.3 execnet==2.0.2 hypothesis==6.82.6 iniconfig==2.0.0 "
                "numpy==1.25.2 packaging==23.1 pluggy==1.3.0 psutil==5.9.5 pyerfa==2.0.0.3 "
                "pytest-arraydiff==0.5.0 pytest-astropy-header==0.2.2 pytest-astropy==0.10.0 "
                "pytest-cov==4.1.0 pytest-doctestplus==1.0.0 pytest-filter-subpackage==0.1.2 "
                "pytest-mock==3.11.1 pytest-openfiles==0.5.0 pytest-remotedata==0.4.0 pytest-xdist==3.3.1 "
                "pytest==7.4.0 PyYAML==6.0.1 setuptools==68.0.0 sortedcontainers==2.4.0 tomli==2.0.1"
            ),
            extras="test",
        ),
        "v5.3": PublishedEnvironment(
            "3.10",
            (
                "attrs==23.1.0 exceptiongroup==1.1.3 execnet==2.0.2 hypothesis==6.82.6 iniconfig==2.0.0 "
                "numpy==1.25.2 packaging==23.1 pluggy==1.3.0 psutil==5.9.5 pyerfa==2.0.0.3 "
                "pytest-arraydiff==0.5.0 pytest-astropy-header==0.2.2 pytest-astropy==0.10.0 "
                "pytest-cov==4.1.0 pytest-doctestplus==1.0.0 pytest-filter-subpackage==0.1.2 "
                "pytest-mock==3.11.1 pytest-openfiles==0.5.0 pytest-remotedata==0.4.0 pytest-xdist==3.3.1 "
                "pytest==7.4.0 PyYAML==6.0.1 setuptools==68.0.0 sortedcontainers==2.4.0 tomli==2.0.1"
            ),
            extras="test",
        ),
        "0.1 0.2 0.3 0.4 1.1 1.2 1.3": PublishedEnvironment(
            "3.6",
            (
                "setuptools==38.2.4 attrs==17.3.0 exceptiongroup==0.0.0a0 execnet==1.5.0 "
                "hypothesis==3.44.2 cython==0.27.3 jinja2==2.10 MarkupSafe==1.0 numpy==1.16.0 "
                "packaging==16.8 pluggy==0.6.0 psutil==5.4.2 pyerfa==1.7.0 pytest-arraydiff==0.1 "
                "pytest-astropy-header==0.1 pytest-astropy==0.2.1 pytest-cov==2.5.1 "
                "pytest-doctestplus==0.1.2 pytest-filter-subpackage==0.1 pytest-forked==0.2 "
                "pytest-mock==1.6.3 pytest-openfiles==0.2.0 pytest-remotedata==0.2.0 pytest-xdist==1.20.1 "
                "pytest==3.3.1 PyYAML==3.12 sortedcontainers==1.5.9 tomli==0.2.0"
            ),
            extras="test",
        ),
    },
    "django/django": {
        "1.7 1.8 1.9 1.10 1.11 2.0 2.1 2.2": PublishedEnvironment(
            "3.5", ("setuptools"), files=("tests/requirements/py3.txt",)
        ),
        "1.4 1.5 1.6": PublishedEnvironment("3.5"),
        "3.0 3.1 3.2": PublishedEnvironment("3.6", files=("tests/requirements/py3.txt",)),
        "4.0": PublishedEnvironment("3.8", files=("tests/requirements/py3.txt",)),
        "4.1 4.2": PublishedEnvironment("3.9", files=("tests/requirements/py3.txt",)),
        "5.0 5.1 5.2": PublishedEnvironment("3.11", files=("tests/requirements/py3.txt",)),
    },
    "matplotlib/matplotlib": {
        "3.5 3.6 3.7": PublishedEnvironment(
            "3.11",
            (
                "contourpy==1.1.0 cycler==0.11.0 fonttools==4.42.1 ghostscript kiwisolver==1.4.5 "
                "numpy==1.25.2 packaging==23.1 pillow==10.0.0 pikepdf pyparsing==3.0.9 "
                "python-dateutil==2.8.2 six==1.16.0 setuptools==68.1.2 setuptools-scm==7.1.0 "
                "typing-extensions==4.7.1"
            ),
        ),
        "3.8 3.9": PublishedEnvironment(
            "3.11",
            (
                "contourpy==1.1.0 cycler==0.11.0 fonttools==4.42.1 ghostscript kiwisolver==1.4.5 "
                "numpy==1.25.2 packaging==23.1 pillow==10.0.0 pikepdf pyparsing==3.0.9 "
                "python-dateutil==2.8.2 six==1.16.0 setuptools==68.1.2 setuptools-scm==7.1.0 "
                "typing-extensions==4.7.1"
            ),
            extras="dev",
        ),
        "3.1 3.2 3.3 3.4": PublishedEnvironment(
            "3.8",
            ("pytest ipython"),
            files=("requirements/dev/dev-requirements.txt", "requirements/testing/travis_all.txt"),
        ),
        "3.0": PublishedEnvironment(
            "3.7", ("pytest"), files=("requirements/dev/dev-requirements.txt", "requirements/testing/travis_all.txt")
        ),
        "2.0 2.1 2.2 1.0 1.1 1.2 1.3 1.4 1.5": PublishedEnvironment("3.5", ("pytest")),
    },
    "mwaskom/seaborn": {
        "0.11": PublishedEnvironment(
            "3.9",
            (
                "contourpy==1.1.0 cycler==0.11.0 fonttools==4.42.1 importlib-resources==6.0.1 "
                "kiwisolver==1.4.5 matplotlib==3.7.2 numpy==1.25.2 packaging==23.1 pandas==1.3.5 "
                "pillow==10.0.0 pyparsing==3.0.9 pytest python-dateutil==2.8.2 pytz==2023.3.post1 "
                "scipy==1.11.2 six==1.16.0 tzdata==2023.1 zipp==3.16.2"
            ),
        ),
        "0.12 0.13 0.14": PublishedEnvironment(
            "3.9",
            (
                "contourpy==1.1.0 cycler==0.11.0 fonttools==4.42.1 importlib-resources==6.0.1 "
                "kiwisolver==1.4.5 matplotlib==3.7.2 numpy==1.25.2 packaging==23.1 pandas==2.0.0 "
                "pillow==10.0.0 pyparsing==3.0.9 pytest python-dateutil==2.8.2 pytz==2023.3.post1 "
                "scipy==1.11.2 six==1.16.0 tzdata==2023.1 zipp==3.16.2"
            ),
            extras="dev",
        ),
    },
    "pallets/flask": {
        "2.0": PublishedEnvironment(
            "3.9",
            ("setuptools==70.0.0 Werkzeug==2.3.7 Jinja2==3.0.1 itsdangerous==2.1.2 click==8.0.1 MarkupSafe==2.1.3"),
            files=("requirements/dev.txt",),
        ),
        "2.1": PublishedEnvironment(
            "3.10",
            ("setuptools==70.0.0 click==8.1.3 itsdangerous==2.1.2 Jinja2==3.1.2 MarkupSafe==2.1.1 Werkzeug==2.3.7"),
            files=("requirements/dev.txt",),
        ),
        "2.2 2.3 3.0 3.1": PublishedEnvironment(
            "3.11",
            ("setuptools==70.0.0 click==8.1.3 itsdangerous==2.1.2 Jinja2==3.1.2 MarkupSafe==2.1.1 Werkzeug==2.3.7"),
            files=("requirements/dev.txt",),
        ),
    },
    "psf/requests": {
        (
            "0.7 0.8 0.9 0.11 0.13 0.14 1.1 1.2 2.0 2.2 2.3 2.4 2.5 2.7 2.8 2.9 2.10 2.11 2.12 2.17 "
            "2.18 2.19 2.22 2.26 2.25 2.27 2.31 3.0"
        ): PublishedEnvironment("3.9", ("pytest")),
    },
    "pydata/xarray": {
        "0.12 0.18 0.19 0.20 2022.03 2022.06 2022.09 2023.07 2024.05": PublishedEnvironment(
            "3.10",
            (
                "numpy==1.23.0 packaging==23.1 pandas==1.5.3 pytest==7.4.0 python-dateutil==2.8.2 "
                "pytz==2023.3 six==1.16.0 scipy==1.11.1 setuptools==68.0.0 dask==2022.8.1"
            ),
        ),
    },
    "pylint-dev/pylint": {
        "2.10 2.11 2.13 2.14 2.15 2.16 2.17 2.9": PublishedEnvironment("3.9", files=("requirements_test.txt",)),
        "2.8": PublishedEnvironment("3.9", ("pyenchant==3.2"), files=("requirements_test.txt",)),
        "3.0 3.1 3.2 3.3 4.0": PublishedEnvironment(
            "3.9", ("astroid==3.0.0a6 setuptools"), files=("requirements_test.txt",)
        ),
    },
    "pytest-dev/pytest": {
        "4.4": PublishedEnvironment(
            "3.9",
            (
                "atomicwrites==1.4.1 attrs==23.1.0 more-itertools==10.1.0 pluggy==0.13.1 py==1.11.0 "
                "setuptools==68.0.0 six==1.16.0"
            ),
        ),
        "4.5": PublishedEnvironment(
            "3.9",
            (
                "atomicwrites==1.4.1 attrs==23.1.0 more-itertools==10.1.0 pluggy==0.11.0 py==1.11.0 "
                "setuptools==68.0.0 six==1.16.0 wcwidth==0.2.6"
            ),
        ),
        "4.6": PublishedEnvironment(
            "3.9",
            (
                "atomicwrites==1.4.1 attrs==23.1.0 more-itertools==10.1.0 packaging==23.1 pluggy==0.13.1 "
                "py==1.11.0 six==1.16.0 wcwidth==0.2.6"
            ),
        ),
        "5.0 5.1 5.2": PublishedEnvironment(
            "3.9",
            (
                "atomicwrites==1.4.1 attrs==23.1.0 more-itertools==10.1.0 packaging==23.1 pluggy==0.13.1 "
                "py==1.11.0 wcwidth==0.2.6"
            ),
        ),
        "5.3": PublishedEnvironment(
            "3.9", ("attrs==23.1.0 more-itertools==10.1.0 packaging==23.1 pluggy==0.13.1 py==1.11.0 wcwidth==0.2.6")
        ),
        "5.4": PublishedEnvironment(
            "3.9", ("py==1.11.0 packaging==23.1 attrs==23.1.0 more-itertools==10.1.0 pluggy==0.13.1")
        ),
        "6.0": PublishedEnvironment(
            "3.9",
            (
                "attrs==23.1.0 iniconfig==2.0.0 more-itertools==10.1.0 packaging==23.1 pluggy==0.13.1 "
                "py==1.11.0 toml==0.10.2"
            ),
        ),
        "6.2 6.3": PublishedEnvironment(
            "3.9", ("attrs==23.1.0 iniconfig==2.0.0 packaging==23.1 pluggy==0.13.1 py==1.11.0 toml==0.10.2")
        ),
        "7.0": PublishedEnvironment(
            "3.9", ("attrs==23.1.0 iniconfig==2.0.0 packaging==23.1 pluggy==0.13.1 py==1.11.0")
        ),
        "7.1 7.2": PublishedEnvironment(
            "3.9", ("attrs==23.1.0 iniconfig==2.0.0 packaging==23.1 pluggy==0.13.1 py==1.11.0 tomli==2.0.1")
        ),
        "7.4 8.0 8.1 8.2 8.3 8.4": PublishedEnvironment(
            "3.9", ("iniconfig==2.0.0 packaging==23.1 pluggy==1.3.0 exceptiongroup==1.1.3 tomli==2.0.1")
        ),
    },
    "scikit-learn/scikit-learn": {
        "0.20 0.21 0.22": PublishedEnvironment(
            "3.6", ("numpy scipy cython pytest pandas matplotlib numpy==1.19.2 setuptools scipy==1.5.2")
        ),
        "1.3 1.4 1.5 1.6": PublishedEnvironment(
            "3.9",
            (
                "numpy==1.19.2 scipy==1.5.2 cython==3.0.10 pytest pandas<2.0.0 matplotlib<3.9.0 "
                "setuptools joblib threadpoolctl cython numpy scipy"
            ),
        ),
    },
    "sphinx-doc/sphinx": {
        (
            "1.5 1.6 1.7 1.8 2.0 2.1 2.2 2.3 2.4 3.0 3.1 3.2 3.3 3.4 3.5 4.0 4.1 4.2 4.3 4.4 4.5 5.0 "
            "5.1 5.2 5.3 6.0 6.2 7.0 7.1 7.2 7.3 7.4"
        ): PublishedEnvironment("3.9", ("tox==4.16.0 tox-current-env==0.0.11 Jinja2==3.0.3"), extras="test"),
        "8.0 8.1": PublishedEnvironment("3.10", ("tox==4.16.0 tox-current-env==0.0.11 Jinja2==3.0.3"), extras="test"),
    },
    "sympy/sympy": {
        "0.7 1.0 1.1 1.10 1.11 1.12 1.2 1.4 1.5 1.6 1.7 1.8 1.9": PublishedEnvironment(
            "3.9", ("mpmath flake8 mpmath==1.3.0 flake8-comprehensions")
        ),
        "1.13 1.14": PublishedEnvironment(
            "3.9", ("mpmath==1.3.0"), files=("requirements-dev.txt", "requirements-test.txt")
        ),
    },
}
