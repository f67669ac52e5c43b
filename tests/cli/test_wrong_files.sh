# Files that are not what their names say, in the place of each file that is read: see wrong_files.py.
exec python3 "$SW_SOURCE/tests/cli/wrong_files.py"
