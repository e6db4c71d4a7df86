#!/bin/bash
alive=0 beats=0
if [ -f /srv/pid ] && kill -0 "$(cat /srv/pid)" 2>/dev/null; then alive=1; fi
first=$(cat /srv/beat 2>/dev/null); sleep 2
if [ "$first" != "$(cat /srv/beat 2>/dev/null)" ]; then beats=1; fi
reward=0; if [ $alive = 1 ] && [ $beats = 1 ]; then reward=1; fi
echo "{\"reward\": $reward, \"alive\": $alive, \"beats\": $beats}" > /logs/verifier/reward.json
