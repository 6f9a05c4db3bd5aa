tenants = {
  tenant-a = {
    team       = "vision"
    gpus       = 4
    developers = ["vision-engineers"]
  }

  tenant-c = {
    team       = "search"
    gpus       = 4
    developers = ["search-engineers"]
  }
}
