cat /app/all /app/more | wc -l > /app/number
