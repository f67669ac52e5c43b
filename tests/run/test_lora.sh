# Adapters trained, saved, continued and merged: see lora.py.
exec python3 "$SW_SOURCE/tests/run/lora.py"
