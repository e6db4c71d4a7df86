#!/bin/bash
. /tests/lib.sh
if [ "$(cat /app/number)" = 3 ] && [ "$(stat -c %U /app/number)" = nobody ]; then reward 1; else reward 0; fi
