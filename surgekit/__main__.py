from surgekit.cli import main

main()
