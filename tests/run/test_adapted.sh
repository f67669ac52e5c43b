# eval and generate with an adapter beside its model: see adapted.py.
exec python3 "$SW_SOURCE/tests/run/adapted.py"
