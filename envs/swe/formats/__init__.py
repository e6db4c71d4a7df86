"""Public SWE task formats: rows as records (``rows``), official grading (``official``).

Left out: building images and playing rows.
"""
