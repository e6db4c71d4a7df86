"""What runs inside the sandbox, on the image's own Python. ``envs.gui.desktop`` sends it there."""
