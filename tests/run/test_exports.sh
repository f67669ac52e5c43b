# Checkpoints of whole runs as models and adapters: see exports.py.
exec python3 -B "$SW_SOURCE/tests/run/exports.py"
