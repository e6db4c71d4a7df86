printf 'c\n' > more
