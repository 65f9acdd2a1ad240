#!/bin/bash
# bash train_full_8p.sh --data_path=FOLDER: training on eight NPUs.
exec bash "$(dirname "$0")/train_full.sh" 8 "$@"
