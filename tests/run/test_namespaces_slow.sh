# Hosts that are network namespaces: see namespaces.py.
exec python3 -B "$SW_SOURCE/tests/run/namespaces.py"
