package menus

import "strings"

var titles = strings.Fields(`Almond Anchovy Apple Apricot Artichoke Arugula Asparagus Avocado Bacon Bagel Baguette Baked Balsamic Banana
Barbecue Barley Basil Batter Bean Beef Beet Berry Biscuit Bisque Black Blackened Blue Boiled Braised Bread Breaded Brie Brisket Broccoli
Broth Brown Brownie Bruschetta Buffalo Burger Burrito Butter Butternut Cabbage Caesar Cajun Cake Calamari Candied Caper Caramel Cardamom
Carrot Cashew Cauliflower Caviar Cayenne Celery Charred Cheddar Cheese Cherry Chicken Chickpea Chili Chipotle Chive Chocolate Chorizo
Chowder Chutney Cilantro Cinnamon Citrus Clam Coconut Cod Coffee Coleslaw Coriander Corn Cottage Couscous Crab Cranberry Cream Creamy
Crepe Crispy Croissant Crouton Crushed Cucumber Cumin Curry Custard Dark Dashi Date Deep Dijon Dill Dressing Duck Dumpling Edamame Egg
Eggplant Enchilada Espresso Fajita Falafel Fennel Feta Fig Fish Flatbread Focaccia Fresh Fried Fritter Fruit Fudge Garden Garlic Gelato
Ginger Glazed Gnocchi Goat Golden Gouda Granola Grape Gravy Greek Green Grilled Grits Gruyere Guacamole Gyro Habanero Haddock Halibut Ham
Hash Hazelnut Herb Hoisin Honey Horseradish House Hummus Iceberg Italian Jalapeno Jam Jasmine Jerk Kale Katsu Kebab Ketchup Kimchi Korean
Lamb Lasagna Latte Leek Lemon Lemongrass Lentil Lettuce Lime Linguine Lobster Mango Maple Marinara Marinated Masala Mashed Mayo Meatball
Melon Melted Mint Miso Mixed Mocha Mole Mozzarella Muffin Mushroom Mussel Mustard Naan Nacho Noodle Nutmeg Oat Octopus Olive Omelette Onion
Orange Oregano Orzo Oyster Paella Pancake Paneer Panini Paprika Parmesan Parsley Pasta Pastrami Peach Peanut Pear Pecan Penne Pepper
Pepperoni Pesto Pickle Pie Pilaf Pine Pineapple Pinto Pistachio Pita Pizza Plantain Plum Poached Polenta Pomegranate Popcorn Pork Potato
Prawn Pretzel Prosciutto Provolone Pudding Puff Pulled Pumpkin Quesadilla Quiche Quinoa Radish Raisin Ramen Ranch Raspberry Ravioli Red
Relish Ribeye Rice Ricotta Risotto Roasted Roll Romaine Rosemary Rye Saffron Sage Salad Salami Salmon Salsa Salted Sandwich Sauce Sausage
Sauteed Savory Scallion Scallop Seared Seaweed Sesame Shallot Shrimp Shredded Sirloin Skewer Sliced Slider Smoked Smoothie Snapper Soba
Sorbet Soup Sour Sourdough Soy Spaghetti Spiced Spicy Spinach Split Sprout Squash Squid Steak Steamed Stew Strawberry Stuffed Sugar Sundae
Sushi Sweet Swiss Tabbouleh Taco Tahini Tamarind Tandoori Tarragon Tart Tea Tempura Tenderloin Teriyaki Thai Thyme Tikka Tilapia Toasted
Tofu Tomato Topped Tortilla Truffle Tuna Turkey Turmeric Udon Vanilla Veal Vegan Vegetable Velvet Vinaigrette Waffle Walnut Wasabi Watermelon
Wheat Whipped White Wild Wine Wing Wonton Wrap Yellow Yogurt Zesty Zucchini`)

var (
	joins = []string{" with", ",", " and", " in a", " on", ", served with", " over"}
	tags  = []string{"vegan", "vegetarian", "gluten-free", "spicy", "contains-nuts", "halal", "popular"}
)
