# The same many times: see restarts.py.
exec python3 -B "$SW_SOURCE/tests/run/restarts.py" 12
