# The figures in README.md are kept true: see readme.py.
exec python3 -B "$SW_SOURCE/tests/house/readme.py"
