# Folders of src/ depend one way: a file includes headers of its own folder and of folders before it.
# See the table in CONTRIBUTING.md.
exec python3 "$SW_SOURCE/tests/house/dependencies.py" "$SW_SOURCE/src"
