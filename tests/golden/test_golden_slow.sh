# Golden cases: see golden.py.
exec python3 -B "$SW_SOURCE/tests/golden/golden.py" slow
