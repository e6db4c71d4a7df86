"""An online shop for the home: customers, products, orders, and a clerk who keeps to the rules."""
