"""What runs user code: in a child process of a worker (`python -m penstock._executor`), or, for `inline`, in the program itself."""
