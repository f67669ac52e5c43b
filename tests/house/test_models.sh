# What the models of docs/design/models stand for is there: see models.py.
exec python3 "$SW_SOURCE/tests/house/models.py" "$SW_SOURCE"
