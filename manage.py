#!/usr/bin/env python
"""Django's command line in a checkout; installed, it is ``model-gateway`` (``gateway_project.command_line``)."""

from gateway_project.command_line import program

if __name__ == "__main__":
    program.main()
