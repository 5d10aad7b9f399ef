"""`python -m penstock.dds`: what the dispatcher's and the readers' containers run."""

from penstock.dds import maybe_start_dataset_service

if __name__ == "__main__":
    maybe_start_dataset_service()
