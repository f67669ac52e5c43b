# Golden cases: see golden.py.
exec python3 "$SW_SOURCE/tests/golden/golden.py" fast
