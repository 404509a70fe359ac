"""`python -m carico_cli`."""

from carico_cli import main

if __name__ == "__main__":
    main.main()
