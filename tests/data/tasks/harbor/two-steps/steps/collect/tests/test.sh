#!/bin/bash
. /tests/lib.sh
if [ "$(cat /app/all)" = "$(printf 'a\nb')" ]; then reward 1; else reward 0; fi
