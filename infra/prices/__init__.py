"""What nodes cost by the hour: tables that say of each price who published it, where and when."""
