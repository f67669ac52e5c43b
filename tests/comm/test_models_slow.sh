# The protocols of shared memory, every interleaving of them: see models.py.
exec python3 -B "$SW_SOURCE/tests/comm/models.py"
