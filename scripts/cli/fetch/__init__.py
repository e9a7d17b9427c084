"""`make fetch JOB=… TO=…`: the files of a job's last run, copied to your disk and checked."""
