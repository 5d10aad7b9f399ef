"""Real processes, killed, stopped, cut off and restored at random; what came of it is counted apart from penstock."""
