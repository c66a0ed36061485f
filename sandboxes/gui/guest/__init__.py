"""What runs inside the sandbox, beside Chromium: it drives the browser, serves its pages and reads their state.

Standard library only, Python 3.9.
"""
