"""What a POSIX machine can say of processes, files and file systems."""
