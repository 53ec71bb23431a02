"""Tests of what an operator installs: the wheel, the files in ``deploy``, and ``model-gateway init``."""
