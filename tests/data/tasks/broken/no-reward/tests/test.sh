#!/bin/bash
case "$(cat /kind)" in
  empty) : > /logs/verifier/reward.txt ;;
  nan) echo nan > /logs/verifier/reward.txt ;;
  text) echo good > /logs/verifier/reward.txt ;;
  bootstrap) echo 'curl: (6) Could not resolve host: example.org'; echo 0 > /logs/verifier/reward.txt ;;
  zero) echo 0 > /logs/verifier/reward.txt ;;
esac
