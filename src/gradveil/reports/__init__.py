"""From records to what people look at: pictures and tables."""
