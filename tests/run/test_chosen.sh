# What `auto` comes to in the optimizer's options, and that a run which goes on keeps it: see chosen.py.
exec python3 "$SW_SOURCE/tests/run/chosen.py"
