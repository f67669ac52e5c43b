# Every system call with every errno of its manual page: see refused.py.
exec python3 -B "$SW_SOURCE/tests/run/refused.py" --all
