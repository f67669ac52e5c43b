# System calls that fail, some by chance: see refused.py.
exec python3 -B "$SW_SOURCE/tests/run/refused.py"
