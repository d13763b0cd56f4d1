"""`python -m gradveil` is the command line."""

from gradveil.cli.main import entry

if __name__ == "__main__":
    entry()
