sort /app/in/* > /app/all
