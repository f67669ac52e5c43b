# Pipes, sockets and devices where files belong: see strange_files.py.
exec python3 -B "$SW_SOURCE/tests/cli/strange_files.py"
