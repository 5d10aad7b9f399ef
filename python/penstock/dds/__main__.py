"""`python -m penstock.dds`: what the dispatcher's and the readers' containers run."""

import sys

from penstock import _identity
from penstock.dds import maybe_start_dataset_service
from penstock.errors import Error, Invalid

_MISCONFIGURED = 2  # as the executable's exit code: trying again will not help


def main() -> None:
    """Serves, or says why it does not."""
    maybe_start_dataset_service()
    raise Invalid(
        f"python -m penstock.dds is for servers, and this process is a {_identity.current().role}: the platform or PENSTOCK_ROLE says dispatcher "
        "or worker in a server's (`penstock doctor --env` shows what is said here)"
    )


if __name__ == "__main__":
    try:
        main()
    except Error as error:
        print(f"penstock: {error}", file=sys.stderr)
        sys.exit(_MISCONFIGURED)
