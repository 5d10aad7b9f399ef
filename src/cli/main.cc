#include "cli/command.h"

int main(int argc, char** argv) { return penstock::cli::RunCli(argc, argv); }
