#!/bin/bash
echo "$WORD" > /app/greeting.txt
