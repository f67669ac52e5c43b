# The model's folder has the chat template that the model was trained with: see kept_template.py.
exec python3 -B "$SW_SOURCE/tests/run/kept_template.py"
