#!/usr/bin/env python
"""Django's command line in a checkout; installed, it is ``model-gateway`` (``gateway_project.command_line``)."""

from gateway_project import command_line

if __name__ == "__main__":
    command_line.main()
